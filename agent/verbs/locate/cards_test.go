package locate

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// rack is network cards that only note how they were asked.
type rack struct {
	mu    sync.Mutex
	asked map[string]int
	fails map[string]error
	// after is called behind each question, with how often the card was asked.
	after func(name string, times int)
}

func (r *rack) cards(names ...string) Cards {
	r.asked = map[string]int{}
	return Cards{
		List: func() ([]string, error) { return names, nil },
		Identify: func(name string, _ uint32) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asked[name]++
			if r.after != nil {
				r.after(name, r.asked[name])
			}
			return r.fails[name]
		},
	}
}

func TestCardsBlinkInTurnAndThoseWithoutALampAreNamed(t *testing.T) {
	gone := errors.New("the card has gone")
	r := &rack{fails: map[string]error{"ens3": unix.EOPNOTSUPP, "ens4": gone}}
	c := r.cards("ens1", "ens2", "ens3", "ens4")
	names, err := c.names()
	require.NoError(t, err)
	blink, without, problems := c.try(t.Context(), names)
	require.Equal(t, []string{"ens1", "ens2"}, blink)
	require.Equal(t, []string{"ens3"}, without)
	require.Equal(t, []error{gone}, problems)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.after = func(name string, times int) {
		if name == "ens1" && times == 4 { // Tried once, and then before ens2, after it, and without it.
			cancel()
		}
	}
	r.fails["ens2"] = gone
	require.Equal(t, []error{gone}, c.blink(ctx, blink), "told of once")
	require.Equal(t, 2, r.asked["ens2"])
	require.Equal(t, 4, r.asked["ens1"])
	require.Equal(t, []string{"ens1", "ens2"}, blink, "what was shown stays")
}

func TestNothingBlinksWhenTheTimeIsOver(t *testing.T) {
	r := &rack{}
	c := r.cards("ens1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	blink, _, _ := c.try(ctx, []string{"ens1"})
	require.Empty(t, blink)
	require.Empty(t, c.blink(ctx, []string{"ens1"}))
	require.Empty(t, r.asked)
	began := time.Now()
	require.Empty(t, c.blink(t.Context(), nil))
	require.Less(t, time.Since(began), time.Second, "a machine without such cards waits for nothing")
}

func TestSoManyCardsAreTried(t *testing.T) {
	var many []string
	for range 2 * maxCards {
		many = append(many, "ens1")
	}
	names, err := new(rack).cards(many...).names()
	require.NoError(t, err)
	require.Len(t, names, maxCards)
}

// The loopback has no lamp on any machine: this is what the kernel says of virtio's cards.
func TestTheKernelSaysThatACardHasNoLamp(t *testing.T) {
	err := identify("lo", 1)
	if os.Geteuid() == 0 && !errors.Is(err, unix.EPERM) {
		require.ErrorIs(t, err, unix.EOPNOTSUPP)
	} else {
		require.ErrorIs(t, err, unix.EPERM)
	}
	require.ErrorIs(t, identify("nothing0", 1), unix.ENODEV)
	require.ErrorIs(t, identify("a-name-that-is-too-long", 1), unix.EINVAL)
}
