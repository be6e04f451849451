package verbs

import (
	"cmp"
	"time"
)

// usualPatience is Patience.For where it is 0: a restart of what is asked is over by then.
const usualPatience = 2 * time.Minute

// Patience bears failures of what is asked again and again while a verb waits, as long as they do not last.
type Patience struct {
	// For is how long they may last.
	For time.Duration

	since time.Time
	said  string
}

// Bear is told how each attempt ended. It returns nil while to ask again is right, and tells the caller of the verb
// that this is done; the error when attempts have failed for too long.
func (p *Patience) Bear(r *Run, err error) error {
	if err == nil {
		p.since, p.said = time.Time{}, ""
		return nil
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if time.Since(p.since) >= cmp.Or(p.For, usualPatience) {
		return err
	}
	if text := err.Error(); text != p.said {
		p.said = text
		_ = r.Say("asking again: %s", text)
	}
	return nil
}
