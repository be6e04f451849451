package vm

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEmulatorHasSmallPagesAndThisProcessKeepsItsLargeOnes(t *testing.T) {
	if largePages(t, os.Getpid()) != "1" {
		t.Skip("this process has no large pages itself, or its kernel does not say")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			cmd := exec.Command("sleep", "60")
			if err := startWithSmallPages(cmd); err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = cmd.Wait() }() // It was killed.
			defer func() { _ = cmd.Process.Kill() }()
			if got := largePages(t, cmd.Process.Pid); got != "0" {
				t.Errorf("large pages of the program: %q, want 0", got)
			}
		})
	}
	all.Wait()
	require.Equal(t, "1", largePages(t, os.Getpid()))
}

func TestOnlyAnEmulatedMachineWithLittleMemoryHasSmallPages(t *testing.T) {
	for c, want := range map[struct {
		accel  string
		memory int
	}]bool{
		{"tcg", 0}: true, {"tcg", 256}: true, {"tcg", 1024}: true, {"tcg", 1536}: false, {"tcg", 3072}: false, {"kvm", 0}: false,
	} {
		require.Equal(t, want, Config{Accel: Accel{Name: c.accel}, Memory: c.memory}.wantsSmallPages(), c)
	}
}

func TestAProgramThatIsNotThereLeavesThisProcessItsLargePages(t *testing.T) {
	before := largePages(t, os.Getpid())
	require.Error(t, startWithSmallPages(exec.Command("/no/such/program")))
	require.Equal(t, before, largePages(t, os.Getpid()))
}

// largePages is what the kernel says of a process: 1 where it may have large pages, 0 where not (proc_pid_status(5)).
func largePages(t *testing.T, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
	}
	m := regexp.MustCompile(`(?m)^THP_enabled:\s*(\d)$`).FindSubmatch(data)
	if m == nil {
		return ""
	}
	return string(m[1])
}
