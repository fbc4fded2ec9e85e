"""The client's end of the RPC interfaces: messages over [MS-MQMP] and [MS-MQRR], the rest over one of ours."""
