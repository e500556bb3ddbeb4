"""The worker agent: runs the attempts a pool's leader sends to this node. Start reading at `agent.py`."""
