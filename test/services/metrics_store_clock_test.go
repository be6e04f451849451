//go:build e2e

package services

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
)

// The store keeps what it has and takes what comes when the node's clock jumps, but for one case, which docs/metrics.md
// has: by a clock that is further ahead than samples are kept, all of them are too old.
func TestTheStoreOfMetricsWhenTheClockJumps(t *testing.T) {
	clock := filepath.Join(t.TempDir(), "clock")
	out, err := exec.Command("go", "build", "-o", clock, "../clock").CombinedOutput()
	require.NoError(t, err, "%s", out)
	ca, err := testca.New("agent")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		jump time.Duration
		// kept says that samples of before are there after the jump and when the clock is right again.
		kept bool
	}{
		"an hour ahead": {time.Hour, true},
		"an hour back":  {-time.Hour, true},
		"a year ahead":  {365 * 24 * time.Hour, false},
		"a year back":   {-365 * 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // It waits for what the store does each minute.
			s := newMetricsStore(t, ca, nil, nil)
			right := s.args
			has := func(series string, at time.Time) bool {
				return s.value(fmt.Sprintf("count(last_over_time(%s[10m] @ %d))", series, at.Unix())) == "1"
			}
			put := func(series string, at time.Time) {
				s.post("/api/v1/import/prometheus", strings.NewReader(fmt.Sprintf("%s 1 %d\n", series, at.Add(-time.Minute).UnixMilli())))
				s.flush()
			}
			s.start()
			now := time.Now()
			put("before", now)
			require.True(t, has("before", now))
			s.stop()

			s.args = append([]string{clock, c.jump.String()}, right...)
			s.start()
			then := time.Now().Add(c.jump)
			put("wrong", then)
			require.True(t, has("wrong", then), "what comes is taken")
			if c.jump.Abs() > 24*time.Hour {
				time.Sleep(70 * time.Second) // The store looks each minute for months that are too old, or too far ahead.
			}
			s.stop()

			s.args = right
			s.start()
			require.Equal(t, c.kept, has("before", now), "what was there before")
			now = time.Now()
			put("after", now)
			require.True(t, has("after", now), "it goes on")
		})
	}
}

// stop ends the store as systemd does; what runs it with another clock does not pass signals on.
func (s *metricsStore) stop() {
	s.t.Helper()
	pid := s.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(s.t, err)
	if filepath.Base(s.args[0]) == "clock" {
		pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		require.NoError(s.t, err)
	}
	require.NoError(s.t, syscall.Kill(pid, syscall.SIGTERM))
	require.NoError(s.t, s.cmd.Wait(), s.log.String())
	s.cmd = nil
}
