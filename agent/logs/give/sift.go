package give

import (
	"context"
	"errors"
	"slices"

	"spore/agent/logs/give/parcel"
)

const (
	// mostRejections is how often a receiver may call the same entries malformed, all of them, before they are left out.
	// With the waits in between, a receiver whose configuration is wrong has a quarter of a minute to be mended.
	mostRejections = 5
	// mostInARow is how many requests may be rejected one after the other while a receiver takes nothing, or means the
	// entries and has taken the others (parcel.Rejected.Certain), until parts are not made smaller any more. To find one
	// malformed entry of 2,000 takes eleven.
	mostInARow = 64
)

// given is what became of entries.
type given struct {
	taken, refused int
	// left are those that the receiver does not have, and err is why.
	left []parcel.Entry
	err  error
	// why is the reason of the last refusal.
	why string
}

// give has the receiver take entries. Where it calls some malformed together, one may be the reason: smaller and
// smaller parts go to it, until those are found. They are refused when it takes others, or says that it means entries.
// When it takes nothing at all, not even the last entry of each part, it may be the receiver that is wrong: the error
// is then a parcel.Rejected, and nothing is refused.
func (g *Giver[B]) give(ctx context.Context, entries []parcel.Entry) (o given) {
	// bad are those that are malformed for sure where it takes others, and unsifted are parts of which that is not known.
	var bad, unsifted []parcel.Entry
	var why *parcel.Rejected
	inARow := 0
	parts := [][]parcel.Entry{entries}
	for len(parts) > 0 || len(unsifted) > 0 && o.taken > 0 {
		if len(unsifted) > 0 && o.taken > 0 {
			parts, unsifted = append([][]parcel.Entry{unsifted}, parts...), nil
		}
		part := parts[0]
		parts = parts[1:]
		got, err := g.receiver.Give(ctx, part)
		if err == nil {
			got.Left = nil
		}
		if got.Refused > 0 {
			o.why = got.Why
		}
		taken := max(len(part)-len(got.Left)-got.Refused, 0)
		o.taken, o.refused = o.taken+taken, o.refused+got.Refused
		if err == nil || taken > 0 {
			inARow = 0
		}
		var rejected *parcel.Rejected
		switch {
		case err == nil:
			continue
		case !errors.As(err, &rejected): // It is away now: what was malformed is found again.
			o.left, o.err = slices.Concat(append([][]parcel.Entry{bad, unsifted, got.Left}, parts...)...), err
			return o
		}
		why = rejected
		inARow++
		n := min(rejected.N, len(got.Left))
		if rest := got.Left[n:]; len(rest) > 0 {
			parts = append([][]parcel.Entry{rest}, parts...)
		}
		switch {
		case n <= 1, inARow > mostInARow && why.Certain:
			bad = append(bad, got.Left[:n]...)
			continue
		case inARow > mostInARow && o.taken == 0:
			unsifted = append(unsifted, got.Left[:n-1]...)
			parts = append([][]parcel.Entry{got.Left[n-1 : n]}, parts...)
			continue
		}
		parts = append([][]parcel.Entry{got.Left[:n/2], got.Left[n/2 : n]}, parts...)
	}
	switch {
	case len(bad)+len(unsifted) == 0:
	case o.taken > 0 || len(unsifted) == 0 && why.Certain:
		o.refused, o.why = o.refused+len(bad), why.Error()
	default:
		o.left = slices.Concat(bad, unsifted)
		o.err = &parcel.Rejected{N: len(o.left), Err: why}
	}
	return o
}
