package packages

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPackagesThatConflictAreInDifferentBatches(t *testing.T) {
	entries := []Entry{{Name: "postfix"}, {Name: "tmux"}, {Name: "exim4"}, {Name: "chrony",
		Instead: []string{"systemd-timesyncd"}}}
	batches, err := Batches(entries, func(b Batch) error {
		if slices.Contains(b.Packages, "postfix") && slices.Contains(b.Packages, "exim4") {
			return errors.New("they conflict")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []Batch{
		{Packages: []string{"postfix", "tmux", "chrony"}, Instead: []string{"systemd-timesyncd"}},
		{Packages: []string{"exim4"}},
	}, batches)
}

func TestABatchIsFullAtItsSize(t *testing.T) {
	var entries []Entry
	for i := range batchSize + 1 {
		entries = append(entries, Entry{Name: fmt.Sprint("p", i)})
	}
	batches, err := Batches(entries, func(Batch) error { return nil })
	require.NoError(t, err)
	require.Len(t, batches, 2)
	require.Len(t, batches[0].Packages, batchSize)
	require.Equal(t, []string{fmt.Sprint("p", batchSize)}, batches[1].Packages)
}

func TestAPackageThatFitsNowhereIsAnError(t *testing.T) {
	_, err := Batches([]Entry{{Name: "nsqd"}}, func(Batch) error { return errors.New("it does not exist") })
	require.EqualError(t, err, "package nsqd: it does not exist")
}
