"""Two applications in one file: a command has to be told which."""

from lior.components import Application

one, two = Application("One"), Application("Two")
