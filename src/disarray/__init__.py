"""disarray keeps metrics and rollups right while instrument files arrive late, twice and half-written."""

__version__ = "0.1.0"
