"""The queue manager's data model behind every protocol ([MS-MQDMPR]); no IO, no clock of its own."""
