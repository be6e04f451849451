package daemon

import (
	"os"

	"spore/services"
	"spore/services/dataversion"
)

// versions are those of the image's programs that keep data. They are read once, when all is up: until then the
// processor is for the roles.
func (a *agent) versions() map[string]string {
	if a.line.Versions != nil || !a.complete {
		return a.line.Versions
	}
	f, err := os.Open(a.m.Root.At(dataversion.ManifestPath))
	if err != nil {
		a.m.Say("say which versions keep data: " + err.Error())
		return map[string]string{}
	}
	defer f.Close()
	out, err := services.Of(a.cluster).DataVersions(f)
	if err != nil {
		a.m.Say("say which versions keep data: " + err.Error())
		return map[string]string{}
	}
	return out
}
