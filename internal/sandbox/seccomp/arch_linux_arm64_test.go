package seccomp

var archEPERM []uint32
