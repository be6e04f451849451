package slot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the node fetches by itself comes again at each look: it is taken once.
func TestWhatIsFetchedAgainIsNotWrittenAgain(t *testing.T) {
	for name, s := range map[string]system{"another root": both, "a configuration alone": newSystem} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			m := machineOf(t, disk, oldSystem)
			m.Synchronized = true
			fetch := func() (Result, int) {
				p := s.pusher(t, 6, nil)
				p.wish = Wish{Pull: true, Later: true}
				out, err := p.run(t, m)
				require.NoError(t, err)
				return out, len(p.sent)
			}
			first, sent := fetch()
			require.NotZero(t, sent)
			boots(t, disk, s)
			disk.ops = nil
			again, sent := fetch()
			require.Equal(t, first.Entry, again.Entry)
			require.Zero(t, sent)
			require.Empty(t, disk.ops)
		})
	}
}

func TestWhatTheNodeWentBackFromItTakesByItselfNoMore(t *testing.T) {
	for name, tt := range map[string]struct {
		state  string
		boot   string
		serial uint64
		wish   Wish
		taken  bool
	}{
		"it was tried and failed":               {Failed, "before", 6, Wish{Pull: true}, false},
		"the running node gave it up":           {Failed, "", 6, Wish{Pull: true}, false},
		"it was started and said nothing":       {OnTrial, "before", 6, Wish{Pull: true}, false},
		"somebody started what was before":      {Kept, "before", 6, Wish{Pull: true}, false},
		"it was staged and never came up":       {Staged, "before", 6, Wish{Pull: true}, false},
		"power went while it was written":       {Staging, "before", 6, Wish{Pull: true}, true},
		"it is signed anew":                     {Failed, "before", 7, Wish{Pull: true}, true},
		"an operator pushes it":                 {Failed, "before", 6, Wish{}, true},
		"it is staged and waits for a start":    {Staged, "", 6, Wish{Pull: true}, true},
		"it was staged, and something else ran": {Staged, "other", 6, Wish{Pull: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOf(t, newDisk(t, oldSystem), oldSystem)
			m.Synchronized = true
			r := Record{
				Serial: 6, ClusterHash: both.hash, RootHash: both.root.hash, State: tt.state, BootID: tt.boot,
				Previous: oldSystem.hash, PreviousRoot: oldSystem.root.hash,
			}
			switch tt.boot {
			case "":
				r.BootID = m.BootID
			case "other":
				r.Previous = newSystem.hash
			}
			writeRecord(m, r)
			p := both.pusher(t, tt.serial, nil)
			p.wish = tt.wish
			_, err := p.run(t, m)
			if tt.taken {
				require.NoError(t, err)
				return
			}
			var refused Refusal
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, "the node went back from this update (6)")
		})
	}
}
