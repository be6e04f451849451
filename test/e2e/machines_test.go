//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// most is how many emulators of this host run at a time when a machine begins, however much they wait: some of them
	// may be of another test, such as the three machines of Kubernetes.
	most = 4
	// watched is how long emulators are looked at before a further machine may begin.
	watched = 3 * time.Second
)

// machines lets machines begin in the order in which they were asked for: at once, where no more emulators run than there
// are processors, and further ones, up to most, when those that run, of this test and of others, wait for clocks and for
// what their tests do.
type machines struct {
	processors int
	// proc is /proc; a test has its own.
	proc    string
	mu      sync.Mutex
	running int
	waiting []claim
}

type claim struct {
	machines int
	granted  chan struct{}
}

// take waits until so many machines may run. They get their places together: two tests that had one each and waited for
// another would wait for ever.
func (m *machines) take(n int) {
	c := claim{n, make(chan struct{})}
	m.mu.Lock()
	m.waiting = append(m.waiting, c)
	m.grant(math.Inf(1), m.beside())
	m.mu.Unlock()
	<-c.granted
}

func (m *machines) release(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running -= n
	for m.grant(math.Inf(1), m.beside()) {
	}
}

// beside is how many emulators there are. Some machines that have begun have none yet. The caller holds mu.
func (m *machines) beside() int {
	_, emulators, _ := wanted(m.proc)
	return max(m.running, emulators)
}

// room is how many processors all emulators of this host may want when a further machine begins, which wants one while it
// starts. Two that compute fill two processors, and a third one would take a quarter more of their time for the same work.
// Those that wait want a little as well, which no processor is kept free for.
func (m *machines) room() float64 { return max(0.5, float64(m.processors)-0.75) }

// grant lets who asked first begin, if there is room beside so many emulators that want so many processors. It tells
// whether it did. The caller holds mu.
func (m *machines) grant(wanted float64, beside int) bool {
	if len(m.waiting) == 0 {
		return false
	}
	c := m.waiting[0]
	if m.running > 0 && beside+c.machines > m.processors && (wanted > m.room() || beside+c.machines > most) {
		return false
	}
	m.waiting = m.waiting[1:]
	m.running += c.machines
	close(c.granted)
	return true
}

// watch looks at the emulators, for ever. After a grant one look is for nothing: the machine has not begun to compute.
func (m *machines) watch() {
	before, _, since := wanted(m.proc)
	for fresh := false; ; {
		time.Sleep(watched)
		now, emulators, at := wanted(m.proc)
		processors := now.since(before).Seconds() / at.Sub(since).Seconds()
		before, since = now, at
		if fresh {
			fresh = false
			continue
		}
		m.mu.Lock()
		fresh = m.grant(processors, max(m.running, emulators))
		m.mu.Unlock()
	}
}

// wants is how long each thread has run, or waited for a processor.
type wants map[string]time.Duration

// since is what threads have wanted since an earlier look.
func (w wants) since(before wants) (sum time.Duration) {
	for thread, now := range w {
		sum += now - before[thread]
	}
	return sum
}

// wanted reads /proc/PID/task/TID/schedstat (Linux, Documentation/scheduler/sched-stats.rst) of all processes of QEMU, and
// counts these. Those that end meanwhile want nothing.
func wanted(proc string) (w wants, emulators int, at time.Time) {
	w, at = wants{}, time.Now()
	names, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm"))
	for _, name := range names {
		if comm, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(comm), "qemu-system") {
			continue
		}
		emulators++
		threads, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "task", "*", "schedstat"))
		for _, thread := range threads {
			data, err := os.ReadFile(thread)
			if err != nil {
				continue
			}
			var ran, waited time.Duration
			if _, err := fmt.Sscan(string(data), &ran, &waited); err == nil {
				w[thread] = ran + waited
			}
		}
	}
	return w, emulators, at
}

func TestAMachineBeginsWhereOthersWait(t *testing.T) {
	m := machines{processors: 2, proc: t.TempDir()}
	ask := func(n int) chan struct{} {
		c := claim{n, make(chan struct{})}
		m.waiting = append(m.waiting, c)
		return c.granted
	}
	began := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	first, second, third, pair, last := ask(1), ask(1), ask(1), ask(2), ask(1)
	m.grant(100, 9)
	require.True(t, began(first), "one runs beside whatever there is")
	m.grant(100, 2)
	require.False(t, began(second), "others have the processors")
	m.grant(100, 1)
	require.True(t, began(second), "there is a processor for it")
	m.grant(m.room()+0.1, 2)
	require.False(t, began(third), "what runs computes")
	m.grant(m.room(), most)
	require.False(t, began(third), "no more than most")
	m.grant(m.room(), 2)
	require.True(t, began(third))
	require.False(t, m.grant(0, most-1), "two at once")
	m.release(1)
	require.False(t, began(pair), "three may compute")
	require.True(t, m.grant(0, 2))
	require.True(t, began(pair))
	m.release(2)
	require.False(t, began(last), "two may compute")
	m.release(1)
	require.True(t, began(last), "there is a processor for it at once")

	proc := m.proc
	write := func(name, text string) {
		name = filepath.Join(proc, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	write("7/comm", "qemu-system-x86\n")
	write("7/task/7/schedstat", "1000000000 500000000 12\n")
	write("7/task/8/schedstat", "2000000000 0 3\n")
	write("9/comm", "bash\n")
	write("9/task/9/schedstat", "5000000000 0 1\n")
	before, n, _ := wanted(proc)
	require.Equal(t, 1, n)
	require.Equal(t, 3500*time.Millisecond, before.since(nil))
	write("7/task/8/schedstat", "2250000000 250000000 4\n")
	now, _, _ := wanted(proc)
	require.Equal(t, 500*time.Millisecond, now.since(before))
}
