package spool

import (
	"os"
	"testing"
)

// TestMain has the files of tests lie in memory where there is such a place: they are flushed some thousand times,
// and what a cut or a full disk does to them is made by the tests themselves.
func TestMain(m *testing.M) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}
