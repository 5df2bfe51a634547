package notify

import (
	"math"
	"runtime"
	"runtime/debug"
)

func fork(start func() error) error {
	procs := runtime.GOMAXPROCS(0)
	// Set even if it is enough: from then on the runtime does not adjust it, which would
	// stop the world.
	runtime.GOMAXPROCS(max(2, procs))
	defer runtime.GOMAXPROCS(procs)
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	limit := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(limit)
	runtime.GC() // one that was under way has ended after it
	return start()
}
