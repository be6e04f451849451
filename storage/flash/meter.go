package flash

import (
	"fmt"
	"time"
)

// Meter makes lines of progress, with rate and time left.
type Meter struct {
	// Now is the time.
	Now   func() time.Time
	phase string
	start time.Time
}

// Line is how far it is, such as "writing 40 %: 512 of 1280 MiB, 25 MiB/s, 31 s left".
func (m *Meter) Line(p Progress) string {
	now := m.Now()
	if p.Phase != m.phase {
		m.phase, m.start = p.Phase, now
	}
	line := fmt.Sprintf("%s %d %%: %d of %d MiB", p.Phase, 100*p.Done/max(p.Total, 1), p.Done>>20, p.Total>>20)
	spent := now.Sub(m.start)
	if spent < time.Second || p.Done == 0 {
		return line
	}
	rate := float64(p.Done) / spent.Seconds()
	left := time.Duration(float64(p.Total-p.Done) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s, %.0f MiB/s, %s left", line, rate/(1<<20), left)
}

// Saved says what was written and what was there already.
func (r Report) Saved() string {
	there := r.Content - r.Written
	if r.Written == 0 {
		return fmt.Sprintf("nothing was written: all %s were there already", mib(r.Content))
	}
	return fmt.Sprintf("wrote %s of %s; the other %s (%d %%) were there already", mib(r.Written), mib(r.Content), mib(there), 100*there/max(r.Content, 1))
}
