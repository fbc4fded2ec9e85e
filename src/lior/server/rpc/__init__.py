"""RPC: what listens, who may call, and what carries the calls out ([MS-RPCE], [MS-MQMP])."""
