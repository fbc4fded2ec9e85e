"""What the methods of the RPC interfaces do: qmcomm and qmcomm2 ([MS-MQMP]), qm2qm ([MS-MQQP]), RemoteRead ([MS-MQRR])
and qmmgmt ([MS-MQMR]), on the engine of one queue manager."""
