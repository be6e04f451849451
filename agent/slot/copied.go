package slot

import (
	"fmt"
	"io"
	"path"
	"strings"

	"spore/storage/fat"
)

// Copied are the files of an ESP that go along where what runs is copied to another disk: all but the entries that
// start another root or cluster part, which that disk does not have. The error says that the loader would start another
// system next: an update that waits for a restart, or a configuration that the node took without one.
func Copied(files []fat.File, rootHash, clusterHash string) (out []fat.File, err error) {
	var running Entry
	var others []Entry
	for _, f := range files {
		e, ok := entryAt(f.Path)
		if !ok {
			out = append(out, f)
			continue
		}
		root, cluster, err := named(io.NewSectionReader(f.Content, 0, f.Size))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		case sameHash(root, rootHash) && sameHash(cluster, clusterHash):
			if out = append(out, f); running.Stem == "" || e.Counted {
				running = e
			}
		case root == "": // It is none of ours.
			out = append(out, f)
		default:
			others = append(others, e)
		}
	}
	for _, e := range others {
		if !(onESP{Entry: e}).bad() && e.generation() > running.generation() {
			return nil, fmt.Errorf("the next start takes another system than the one that runs, %s: start it first "+
				"(spore reboot), and try again", e.File())
		}
	}
	return out, nil
}

// entryAt reads the path of a file on an ESP; ok is false for what is no entry.
func entryAt(file string) (e Entry, ok bool) {
	if !strings.EqualFold(path.Dir(file), Dir) {
		return Entry{}, false
	}
	return ParseEntry(path.Base(file))
}
