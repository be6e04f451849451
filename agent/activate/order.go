package activate

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"spore/services"
	"spore/storage/atomicfile"
)

// maxUnit bounds what is read of a unit's file, in bytes.
const maxUnit = 256 << 10

// inOrder puts roles in the order in which their targets are enqueued: one whose units are to start after those of
// another role comes behind it. systemd orders jobs that it has; a unit whose job comes when the other one's has not been
// enqueued yet starts without it. Otherwise the order stays, and so it does where two wait for each other.
func (in Input) inOrder(roles []string) []string {
	if in.After == nil {
		return roles
	}
	has, after := map[string][]string{}, map[string][]string{}
	for _, name := range roles {
		row, _ := services.Of(in.Cluster).Lookup(name)
		has[name] = []string{row.Target}
		for _, p := range services.RolePrograms(in.Cluster, row) {
			has[name], after[name] = append(has[name], p.Unit), append(after[name], in.After(p.Unit)...)
		}
	}
	left, out := slices.Clone(roles), make([]string, 0, len(roles))
	waits := func(name string) bool {
		return slices.ContainsFunc(left, func(other string) bool {
			return other != name && slices.ContainsFunc(after[name], func(u string) bool { return slices.Contains(has[other], u) })
		})
	}
	for len(left) > 0 {
		next := max(0, slices.IndexFunc(left, func(name string) bool { return !waits(name) }))
		out = append(out, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return out
}

// AfterIn reads After= (systemd.unit(5)) of a unit and of what is laid over it, in the directories in which systemd looks
// for units, the first of which counts. A file that cannot be read says nothing: systemd will say so.
func AfterIn(dirs ...string) func(unit string) []string {
	return func(name string) []string {
		var files []string
		for _, d := range dirs {
			if at := filepath.Join(d, name); len(files) == 0 {
				if _, err := os.Stat(at); err == nil {
					files = append(files, at)
				}
			}
		}
		for _, d := range dirs {
			over, _ := filepath.Glob(filepath.Join(d, name+".d", "*.conf"))
			files = append(files, over...)
		}
		var out []string
		for _, file := range files {
			out = append(out, afterOf(file)...)
		}
		return out
	}
}

func afterOf(file string) (out []string) {
	data, err := atomicfile.ReadLimited(file, maxUnit)
	if err != nil {
		return nil
	}
	// The parser keeps the end of a line that goes on.
	data = bytes.ReplaceAll(data, []byte("\\\n"), []byte(" "))
	options, err := unit.DeserializeOptions(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	for _, o := range options {
		if o.Section == "Unit" && o.Name == "After" {
			out = append(out, strings.Fields(o.Value)...)
		}
	}
	return out
}
