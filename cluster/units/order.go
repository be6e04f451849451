package units

import (
	"slices"

	"spore/cluster/check"
	"spore/cluster/units/unitfile"
)

// stops checks that the unit stops none of Spore, nor one that each machine needs.
func (c checker) stops() {
	for _, s := range c.file.Settings {
		if s.Section != "Unit" || !slices.Contains([]string{"Conflicts", "PropagatesStopTo", "StopPropagatedFrom"}, s.Key) {
			continue
		}
		for _, name := range c.named(s) {
			switch {
			case !mustRun(name):
			case s.Key == "StopPropagatedFrom":
				c.fail(s.Line, "%s=%s: units of Spore, and those that each machine needs, propagate nothing; write "+
					"PartOf=%s to be stopped with it", s.Key, check.Clip(name), check.Clip(name))
			default:
				c.fail(s.Line, "%s=%s stops a unit of Spore, or one that each machine needs; name another unit, or remove "+
					"the line", s.Key, check.Clip(name))
			}
		}
	}
}

// delays checks that the unit does not hold up one of Spore in the early boot, where a unit without the default
// dependencies is started.
func (c checker) delays(files []File) {
	early := func(f File) bool { return f.Unit() == c.file.Unit() && f.early() }
	if !slices.ContainsFunc(files, early) {
		return
	}
	for _, s := range c.file.Settings {
		if s.Section != "Unit" || s.Key != "Before" {
			continue
		}
		for _, name := range c.named(s) {
			if Ours(name) {
				c.fail(s.Line, "Before=%s with DefaultDependencies=no lets this unit hold up one of Spore in the early "+
					"boot; remove one of both", check.Clip(name))
			}
		}
	}
}

// early says that a file turns the default dependencies of its unit off.
func (f File) early() bool {
	return slices.ContainsFunc(f.Settings, func(s unitfile.Setting) bool {
		return s.Section == "Unit" && s.Key == "DefaultDependencies" && s.Value != "" && !unitfile.Yes(s.Value)
	})
}
