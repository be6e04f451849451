//go:build integration

package recipe

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The forms in which units of Debian call kill(1).
func TestKillOfAnImageSendsSignals(t *testing.T) {
	// Whoever runs the tests by nohup(1) hands an ignored SIGHUP down to all programs. What is caught is not handed down.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for words, want := range map[string]syscall.Signal{
		"-HUP": syscall.SIGHUP, "-SIGUSR2": syscall.SIGUSR2, "-s HUP": syscall.SIGHUP, "-s SIGTERM": syscall.SIGTERM, "-15": syscall.SIGTERM,
		"": syscall.SIGTERM, "-TERM --": syscall.SIGTERM, "--signal=USR1": syscall.SIGUSR1, "--signal USR1": syscall.SIGUSR1,
	} {
		t.Run(words, func(t *testing.T) {
			sleep := exec.Command("sleep", "60")
			require.NoError(t, sleep.Start())
			args := append([]string{"kill.sh"}, strings.Fields(words)...)
			out, err := exec.Command("sh", append(args, strconv.Itoa(sleep.Process.Pid))...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			_ = sleep.Wait()
			require.Equal(t, want, sleep.ProcessState.Sys().(syscall.WaitStatus).Signal())
		})
	}
	require.Error(t, exec.Command("sh", "kill.sh", "-HUP", "999999999").Run(), "there is no such process")
}
