"""Producers: publish a world to its topic, and drive a run's clock."""

from churnbench_producers._clock import drive_frozen, frozen_times
from churnbench_producers._publish import Published, build_manifest, publish_world

__all__ = ["Published", "build_manifest", "drive_frozen", "frozen_times", "publish_world"]
