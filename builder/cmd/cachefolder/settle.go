package cachefolder

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"spore/builder/progress"
	"spore/builder/store"
)

// Settle holds the cache to its limit, tells a person what went, and ends the session.
func Settle(st *store.Store, printer *progress.Printer) error {
	limit, err := Limit(st.Dir())
	if err != nil {
		return errors.Join(err, st.Close())
	}
	pruned, err := st.Tidy(limit)
	switch {
	case err != nil:
		err = fmt.Errorf("hold the cache to its limit: %w", err)
	case pruned.Left > limit && limit > 0:
		printer.Printf("warning: the cache has %s and a limit of %s, but running builds use what is left; raise it with spore cache limit", humanize.IBytes(uint64(pruned.Left)), humanize.IBytes(uint64(limit)))
	case pruned.Removed > 0:
		printer.Printf("the cache reached its limit of %s: %d objects that were unused for the longest time are removed, %s", humanize.IBytes(uint64(limit)), pruned.Removed, humanize.IBytes(uint64(pruned.Freed)))
	}
	return errors.Join(err, st.Close())
}
