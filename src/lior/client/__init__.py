"""The public library: one core, a sync face and an asyncio face."""
