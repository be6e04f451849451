package pipeline

import (
	"spore/builder/origins"
	"spore/builder/recipe"
)

// leftOut is what the recipe's report says of files that packages bring and the root does not have.
func leftOut(r *recipe.Report) []origins.LeftOut {
	var out []origins.LeftOut
	for _, e := range r.Entries {
		if e.Action != "drop" && e.Action != "take" {
			continue
		}
		l := origins.LeftOut{Path: e.Path, Step: e.Step, Why: e.Why, Bytes: e.Bytes, Origin: e.Origin, Files: e.Files}
		if e.Package != "" {
			l.Path = e.Package
		}
		out = append(out, l)
	}
	return out
}
