package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/rehearsal"
	"spore/builder/vm"
	"spore/cluster/facts"
)

func TestArgumentsOfUntilAndOfTheProxy(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		f   flags
		err string
	}{
		{flags{all: true, until: "ready"}, ""},
		{flags{all: true, until: "ready", json: true, timed: true, timeout: time.Minute}, ""},
		{flags{nodes: []string{"a"}, console: "a", until: "ready"}, ""},
		{flags{all: true, until: "running"}, `--until is "running"; it can be ready`},
		{flags{all: true, timed: true, timeout: time.Minute}, "--timeout goes with --until ready"},
		{flags{all: true, until: "ready", timed: true}, "--timeout is 0s"},
		{flags{all: true, until: "ready", timed: true, timeout: -time.Second}, "--timeout is -1s"},
		{flags{kill: true, until: "ready"}, "--until goes with the nodes to start"},
		{flags{console: "a", until: "ready"}, "--until goes with the nodes to start"},
		{flags{all: true, socks: "127.0.0.1:1080"}, ""},
		{flags{all: true, socks: "0.0.0.0:1080"}, "write a port of loopback"},
		{flags{kill: true, socks: "127.0.0.1:1080"}, "--socks goes with the nodes to start"},
		{flags{console: "a", socks: "127.0.0.1:1080"}, "--socks goes with the nodes to start"},
	} {
		_, err := tt.f.take(nil)
		if tt.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tt.err)
	}
	require.Equal(t, 20*time.Minute, flags{}.limit())
	require.Equal(t, time.Second, flags{timed: true, timeout: time.Second}.limit())
}

// fakeMachine is a machine of which there is a console alone.
type fakeMachine struct {
	*machine
	says io.WriteCloser
}

func newFakeMachine(t *testing.T, name string, roles ...string) fakeMachine {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	stamp := func() (wall, cpu time.Duration) { return 0, 0 }
	m := &machine{plan: rehearsal.Machine{Node: &facts.Node{Name: name, Roles: roles}}, Machine: &vm.Machine{Console: vm.Collect(r, io.Discard, stamp)}}
	return fakeMachine{m, w}
}

func (m fakeMachine) say(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(m.says, text+"\n")
	require.NoError(t, err)
}

func (m fakeMachine) sayStatus(t *testing.T, system string) {
	t.Helper()
	m.say(t, fmt.Sprintf(`{"spore":1,"node":%q,"system":%q,"roles":["dns-server"],"services":{"dns.target":"active"}}`, m.plan.Node.Name, system))
}

// said is what was reported, which others may write at the same time.
type said struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.String()
}

func newUntil(t *testing.T, limit time.Duration, machines ...fakeMachine) (*session, *said) {
	t.Helper()
	var out said
	s := &session{
		flags: flags{until: untilReady, timed: true, timeout: limit}, reporter: &reporter{w: &out},
		folder: rehearsal.Folder(t.TempDir()), started: time.Now(),
	}
	for _, m := range machines {
		s.machines = append(s.machines, m.machine)
	}
	return s, &out
}

func TestUntilEndsWhenAllMachinesAreReadyAtTheSameTime(t *testing.T) {
	a, b := newFakeMachine(t, "a", "dns-server"), newFakeMachine(t, "b", "dns-server")
	s, out := newUntil(t, time.Minute, a, b)
	a.say(t, "[    0.000000] Linux version 6.1")
	a.sayStatus(t, "starting")
	a.sayStatus(t, "running")
	done := make(chan error, 1)
	go func() { done <- s.awaitReady(t.Context()) }()
	require.Eventually(t, func() bool { return strings.Contains(out.text(), "a: 0 s: ready\n") }, soon, time.Millisecond)

	// It starts again, and what it said before says nothing of it now.
	a.say(t, "[    0.000000] Linux version 6.1")
	b.sayStatus(t, "running")
	require.Eventually(t, func() bool { return strings.Contains(out.text(), "b: ") }, soon, time.Millisecond)
	require.Empty(t, done)
	a.sayStatus(t, "running")
	require.NoError(t, <-done)
	require.Equal(t, 2, strings.Count(out.text(), "a: "), "each time")
}

const soon = 30 * time.Second

func TestUntilSaysWhatIsMissingWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	a, b, c := newFakeMachine(t, "a", "dns-server"), newFakeMachine(t, "b", "dns-server", "mqtt-broker"), newFakeMachine(t, "c")
	s, out := newUntil(t, 2*time.Second, a, b, c)
	a.sayStatus(t, "running")
	b.sayStatus(t, "starting")
	c.say(t, "BdsDxe: loading Boot0001")
	require.EqualError(t, s.awaitReady(t.Context()), "not ready: b, c: the time limit of 2s is over")
	require.Contains(t, out.text(), "b: not ready: system: it is starting; role mqtt-broker: it was not started; unit mqtt.target: it is unknown\n")
	require.Contains(t, out.text(), `c: not ready: status: the node has not said anything yet; its console ends with "BdsDxe: loading Boot0001"`)
	require.NotContains(t, out.text(), "a: not ready")

	s, out = newUntil(t, time.Second, b)
	s.reporter.json = true
	require.Error(t, s.awaitReady(t.Context()))
	require.Contains(t, out.text(), `{"event":"missing","node":"b","missing":[{"what":"system","reason":"it is starting"},`)
}

func TestUntilGivesUpWhenAKernelPanics(t *testing.T) {
	a := newFakeMachine(t, "a")
	s, _ := newUntil(t, time.Minute, a)
	ctx, giveUp := context.WithCancelCause(t.Context())
	go watchPanic(ctx, a.machine, giveUp)
	a.say(t, "[    3.1] Kernel panic - not syncing: VFS: Unable to mount root fs")
	require.EqualError(t, s.awaitReady(ctx), "not ready: a: a: Kernel panic - not syncing: VFS: Unable to mount root fs")

	ctx, giveUp = context.WithCancelCause(t.Context())
	giveUp(errors.New("the machine a has ended"))
	require.EqualError(t, s.awaitReady(ctx), "not ready: a: the machine a has ended")
}

func TestKubernetesIsNeverTakenOnTrust(t *testing.T) {
	var out bytes.Buffer
	s := &session{reporter: &reporter{w: &out}, machines: []*machine{{plan: rehearsal.Machine{Node: &facts.Node{Name: "a", Roles: []string{"dns-server"}}}}}}
	require.NoError(t, s.withoutKeys())
	require.Contains(t, out.String(), "warning: without the cluster's keys")
	s.machines[0].plan.Node.Roles = []string{"worker"}
	require.ErrorContains(t, s.withoutKeys(), "whether Kubernetes takes a for Ready is asked with the cluster's keys")
}
