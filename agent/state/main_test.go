package state

import (
	"os"
	"testing"
)

// TestMain has the files of tests lie in memory where there is such a place: whole disks are copied for each write at
// which one is cut off, and their key slots overwritten and flushed, 4 GiB in all.
func TestMain(m *testing.M) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}
