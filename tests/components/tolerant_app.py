"""The same application after its mistake was mended."""

from tests.components.cli_app import tolerant

(app,) = tolerant
