package send

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"spore/agent/logs/tail"
)

// unread tells for how long nothing has been brought of a journal that has entries: a journal-upload that hangs does
// not end, so that systemd does not start it anew, and nothing waits in a queue.
type unread struct {
	// since is when it began; zero while all is brought. at is the entry that was brought last.
	since time.Time
	at    mark
}

// look compares the last entries of the journal with what was taken. At least for so long the oldest entry has waited
// that was not.
func (u *unread) look(last []place, taken marks, now time.Time) time.Duration {
	var at mark
	if len(taken) > 0 {
		at = taken[0]
	}
	waits := slices.ContainsFunc(last, func(p place) bool { return !taken.has(p) })
	if !waits {
		u.since = time.Time{}
	} else if u.since.IsZero() || at != u.at {
		u.since = now
	}
	u.at = at
	if !waits {
		return 0
	}
	return max(0, now.Sub(u.since))
}

// lastEntries are those that the files of the journal end with.
func (s *Sender) lastEntries() (out []place) {
	for _, path := range s.o.Journals {
		e, err := tail.Read(path)
		switch {
		case err == nil:
			out = append(out, place{id: e.Series, boot: e.Boot, number: e.Number})
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, tail.ErrEmpty):
			s.stores[0].tell(fmt.Sprintf("see how far the journal is written: %v", err))
		}
	}
	return out
}
