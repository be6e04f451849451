package fat_test

import (
	"os"
	"testing"
)

// TestMain has the files of tests lie in memory where there is such a place: hundreds of disks are written for
// fsck.fat.
func TestMain(m *testing.M) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}
