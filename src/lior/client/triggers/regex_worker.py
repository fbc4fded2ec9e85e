"""A process that searches text with regular expressions, for lior.client.triggers.matching.

A pattern can take time without end on a text made for it, and holds the interpreter meanwhile. So it is
searched here, where an alarm ends the whole process. Each line of input is a JSON list of pattern, text and
seconds; each answer is a line with 1 or 0.
"""

import json
import re
import signal
import sys
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which then closes our input
    for line in sys.stdin.buffer:
        pattern, text, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM keeps its default action: the process ends
        found = re.search(pattern, text) is not None
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write("1\n" if found else "0\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
