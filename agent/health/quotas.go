package health

import (
	"fmt"
	"strings"

	"spore/wire/nodeapi"
)

// Quota is a directory of a role that may fill so much.
type Quota struct {
	Path string
	// Bytes is what it may fill.
	Bytes uint64
	// Is is the directory as the file system tells of it: no larger than its quota, where that is enforced.
	Is Space
	// Hidden says that it lies in a directory that is for its role alone, so that nobody looks at it here.
	Hidden bool
}

// quotas never fails a node: a full directory is of one role, and that says itself when it cannot write.
func quotas(in Input) (nodeapi.State, string) {
	is := nodeapi.OK
	var out []string
	for _, q := range in.Quotas {
		if q.Hidden {
			out = append(out, q.Path+" lies in a directory that its role alone reads")
			continue
		}
		if q.Is.Problem != "" {
			is = nodeapi.Warning
			out = append(out, q.Is.Problem)
			continue
		}
		if q.Is.Bytes > q.Bytes {
			is = nodeapi.Warning
			out = append(out, q.Path+" is not held to its quota")
			continue
		}
		left := share(q.Is.FreeBytes, q.Is.Bytes)
		text := fmt.Sprintf("%d %% of %s is free (%d of %d MiB)", left, q.Path, q.Is.FreeBytes>>20, q.Is.Bytes>>20)
		files := share(q.Is.FreeFiles, q.Is.Files)
		if files < lowShare {
			text += fmt.Sprintf(", and room for %d %% of its files", files)
		}
		if left < lowShare || files < lowShare {
			is = nodeapi.Warning
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "", ""
	}
	return is, strings.Join(out, "; ")
}
