package units

import (
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/units/unitfile"
)

// Start is an assignment by which a timer, path or socket starts something else than the service of its own name.
type Start struct {
	// Says is the assignment, such as Unit=copy.service, and Unit what it starts; empty where only the machine knows it.
	Says, Unit string
	// At is where it stands.
	At check.Place
}

// StartsOthers lists them for a unit, from its file and its drop-ins. For systemd the last assignment counts; this
// lists each, since none belongs there.
func StartsOthers(files []File, unit string) []Start {
	kind := path.Ext(unit)
	stem := strings.TrimSuffix(unit, kind)
	var out []Start
	ofItself := slices.ContainsFunc(files, func(f File) bool { return f.Path == unit })
	for _, f := range files {
		if f.Unit() != unit && f.Unit() != Template(unit) {
			continue
		}
		if ofItself && f.Path == Template(unit) && f.Path != unit {
			continue // Beside the file of an instance, systemd reads drop-ins alone of its template (systemd.unit(5)).
		}
		for _, s := range f.Settings {
			if to, is := starts(s, kind, unit); is && to != stem+".service" {
				out = append(out, Start{Says: s.Key + "=" + s.Value, Unit: to, At: check.In(lineOf{f.Source()}, s.Line)})
			}
		}
	}
	return out
}

// starts is what an assignment in a unit has it start (systemd.timer(5), systemd.path(5), systemd.socket(5)).
func starts(s unitfile.Setting, kind, unit string) (to string, is bool) {
	switch {
	case s.Value == "":
		return "", false
	case kind == ".socket" && s.Section == "Socket" && s.Key == "Accept":
		// One instance for each connection.
		return strings.TrimSuffix(unit, kind) + "@.service", unitfile.Yes(s.Value)
	case kind == ".socket" && s.Section == "Socket" && s.Key == "Service",
		kind == ".timer" && s.Section == "Timer" && s.Key == "Unit",
		kind == ".path" && s.Section == "Path" && s.Key == "Unit":
		to, _ = expand(unquote.Replace(s.Value), unit)
		return to, true
	}
	return "", false
}
