package seccomp

var (
	archEPERM    []uint32
	archModes    map[uint32]int
	archOpens    map[uint32]int
	archModeRows []modeRow
)
