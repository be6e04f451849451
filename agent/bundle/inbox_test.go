package bundle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
)

// The folder for bundles that the operator sends is one in which the API's user can lay anything.
func TestALinkInTheInboxLeadsNowhere(t *testing.T) {
	take := func(dir string) string {
		data, _ := readInbox(filepath.Join(dir, inboxFile))
		_ = os.RemoveAll(filepath.Join(dir, inboxFile))
		return string(data)
	}
	for _, kind := range linktrap.Kinds {
		t.Run(kind, func(t *testing.T) {
			outside, dir := linktrap.New(t), t.TempDir()
			outside.Plant(t, kind, filepath.Join(dir, inboxFile))
			read := take(dir)
			outside.Untouched(t)
			if kind != "another name of a file" { // That one's content is the user's to send.
				require.Empty(t, read)
			}
		})
	}
	t.Run("swapped while root works", func(t *testing.T) {
		outside, dir := linktrap.New(t), t.TempDir()
		outside.While(t, filepath.Join(dir, inboxFile), 50, func() { take(dir) })
		outside.Untouched(t)
	})
	dir := t.TempDir()
	linktrap.Pipe(t, filepath.Join(dir, inboxFile))
	_, err := readInbox(filepath.Join(dir, inboxFile))
	require.ErrorContains(t, err, "is not a bundle", "a pipe is not waited for")
}
