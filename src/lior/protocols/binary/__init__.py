"""The message queuing binary protocol ([MS-MQQB]): sessions between queue managers."""
