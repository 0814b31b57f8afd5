"""``tulle stream``: sources, checkpoints, snapshots."""

from tulle.workflows.stream.run import Streamed, stream

__all__ = ["Streamed", "stream"]
