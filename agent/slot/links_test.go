package slot

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
	"spore/wire/update"
)

// take is all that root does with the spool of the node's API; it returns what root would act on.
func take(s Spool) string {
	j, err := s.Next()
	if err != nil || j == nil {
		return ""
	}
	var b bytes.Buffer
	_ = j.CopyTo(&b, 1<<10)
	_ = j.Answer(update.Answer{Serial: 3})
	return b.String()
}

func TestALinkInTheSpoolLeadsNowhere(t *testing.T) {
	for _, name := range []string{"1.update", "1.wish", "1.answer"} {
		for _, kind := range linktrap.Kinds {
			t.Run(name+" is "+kind, func(t *testing.T) {
				outside, dir := linktrap.New(t), t.TempDir()
				outside.Plant(t, "a link to a file", filepath.Join(dir, "1.update"))
				outside.Plant(t, kind, filepath.Join(dir, name))
				read := take(Spool(dir))
				outside.Untouched(t)
				if kind != "another name of a file" { // That one's content is the user's to send.
					require.Empty(t, read)
				}
			})
		}
	}
	t.Run("swapped while root works", func(t *testing.T) {
		outside, dir := linktrap.New(t), t.TempDir()
		outside.While(t, filepath.Join(dir, "1.update"), 50, func() { take(Spool(dir)) })
		outside.Untouched(t)
	})
}
