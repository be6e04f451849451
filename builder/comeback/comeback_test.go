package comeback

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// step is what the node answers at one time.
type step struct {
	status nodeapi.Status
	err    error
}

// wait answers step by step, and the last of them again and again.
func wait(steps ...step) (w Wait, said *[]string) {
	said = new([]string)
	i := 0
	return Wait{
		Ask: func(context.Context) (nodeapi.Status, error) {
			s := steps[min(i, len(steps)-1)]
			i++
			return s.status, s.err
		},
		Say:   func(text string) { *said = append(*said, text) },
		Every: time.Millisecond, Bound: 5 * time.Second,
	}, said
}

func TestANodeIsBackWhenItsRolesAreUp(t *testing.T) {
	refused := errors.New("connection refused")
	old := step{status: nodeapi.Status{BootID: "a", System: "running"}}
	up := nodeapi.Status{BootID: "b", System: "degraded", Services: map[string]string{"etcd.service": "active"}}
	w, said := wait(old, old, step{err: refused}, step{err: refused},
		step{status: nodeapi.Status{BootID: "b", System: "starting"}},
		step{status: nodeapi.Status{BootID: "b", System: "starting", Services: map[string]string{"etcd.service": "activating"},
			Waiting: map[string]string{"etcd": "waiting for master-2"}}},
		step{status: up})
	got, err := w.ForStart(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, up, got)
	require.Equal(t, []string{
		"waits for it to go down", "waits for it to answer: connection refused", "waits for its roles: the system is starting",
		"waits for its roles: etcd.service is activating, etcd is waiting for master-2",
	}, *said)
}

func TestANodeThatStaysAwayIsNamed(t *testing.T) {
	w, _ := wait(step{err: errors.New("no route to host")})
	w.Bound = 50 * time.Millisecond
	_, err := w.ForStart(t.Context(), "a")
	require.ErrorContains(t, err, "waited 50ms for it to answer: no route to host")
}

func TestANodeThatNeverWentDownIsNotBack(t *testing.T) {
	w, _ := wait(step{status: nodeapi.Status{BootID: "a", System: "running"}})
	w.Bound = 50 * time.Millisecond
	_, err := w.ForStart(t.Context(), "a")
	require.ErrorContains(t, err, "waited 50ms for it to go down")
}

func TestOneLostAnswerIsNotTheEnd(t *testing.T) {
	lost, there := step{err: errors.New("x")}, step{status: nodeapi.Status{BootID: "a"}}
	w, said := wait(there, lost, there, lost, lost, there)
	require.NoError(t, w.ForSilence(t.Context()))
	require.Equal(t, []string{"waits for it to go down"}, *said)
	w, _ = wait(there)
	w.Bound = 50 * time.Millisecond
	require.Error(t, w.ForSilence(t.Context()))
}
