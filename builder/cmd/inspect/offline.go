package inspect

import (
	"encoding/json"
	"fmt"
	"io"

	"spore/builder/offline"
	"spore/builder/rootfs"
)

// showOffline prints what could fetch something at run time; that there is something is an error.
func showOffline(w io.Writer, name string, asJSON bool) error {
	i, err := rootfs.Open(name)
	if err != nil {
		return err
	}
	defer i.Close()
	r, err := offline.Look(i)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if asJSON {
		err = json.NewEncoder(w).Encode(r)
	} else {
		err = printOffline(w, r)
	}
	if err != nil {
		return err
	}
	if n := r.Findings(); n > 0 {
		return fmt.Errorf("%s: %d things in it could fetch something at run time", name, n)
	}
	return nil
}

func printOffline(w io.Writer, r *offline.Report) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for _, c := range r.Checks {
		word := "yes"
		if len(c.Findings) > 0 {
			word = "NO "
		}
		line("%s  %s", word, c.Name)
		for _, e := range c.Evidence {
			line("       %s", e)
		}
		for _, f := range c.Findings {
			at := f.Path
			if f.Line > 0 {
				at = fmt.Sprintf("%s:%d", f.Path, f.Line)
			}
			line("  !    %s: %s", at, f.Why)
			if f.Text != "" {
				line("         %s", f.Text)
			}
		}
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"fetches when somebody asks it to", r.Able}, {"peers beyond the cluster", r.Peers}} {
		for n, text := range list.lines {
			if n == 0 {
				line("\n%s", list.title)
			}
			line("  %s", text)
		}
	}
	return err
}
