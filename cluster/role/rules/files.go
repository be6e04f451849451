package rules

import (
	"errors"
	"maps"
	"math"
	"net/netip"
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/setting"
	"spore/cluster/role/template"
)

func (c *checker) files() {
	c.list(c.in("files"), "files", len(c.d.Files))
	seen, used := c.Unique(), map[string]bool{}
	for i, f := range c.d.FilesFilled() {
		p := c.in("files", i)
		if c.file.Has("files", i, "path") && c.path(p.Then("path"), f.Path, fileDirs) &&
			c.inEtc(p.Then("path"), f.Path) {
			seen.Add(p.Then("path"), "the file", f.Path, "remove one")
			for j, dir := range c.d.Directories {
				if dir.Path == f.Path {
					c.Errorf(p.Then("path"), "the path %q is a directory of the role, at %s; write a name below it",
						f.Path, c.in("directories", j).Where())
				}
			}
		}
		c.owner(p.Then("owner"), "the owner", c.d.Files[i].Owner)
		c.owner(p.Then("group"), "the group", c.d.Files[i].Group)
		c.mode(p.Then("mode"), c.d.Files[i].Mode)
		if role.Permissions(f.Mode)&0o004 != 0 && len(f.Secrets) > 0 {
			c.Errorf(p.Then("mode"), "the file holds secrets, and the mode %q lets everybody read them; write "+
				"\"0640\"", f.Mode)
		}
		c.fileSecrets(p.Then("secrets"), f.Secrets)
		if c.file.Has("files", i, "template") {
			used[f.Template] = true
			c.template(p.Then("template"), f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.d.Templates)) {
		if !used[name] {
			c.Errorf(check.In(page{path.Join(c.d.Folder(), name)}),
				"no file of %s is made from this template; name it there, or remove it", c.file.Path())
		}
	}
}

// fileSecrets checks what a file says that its template may read.
func (c *checker) fileSecrets(p check.Place, list []string) {
	known := c.d.Entries()
	for _, name := range slices.Sorted(maps.Keys(c.d.Settings)) {
		if t := c.d.Settings[name]; holdsSecret(&t) {
			known = append(known, role.SettingSecrets+name)
		}
	}
	seen := c.Unique()
	for i, name := range list {
		if slices.Contains(known, name) {
			seen.Add(p.Then(i), "the secret", name, "remove one")
			continue
		}
		key, isSetting := strings.CutPrefix(name, role.SettingSecrets)
		if t, is := c.d.Settings[key]; isSetting && is {
			c.Errorf(p.Then(i), "the setting %s is of the type %s and names no secret; remove it here, or declare "+
				"it with type: secret", key, t.Type)
			continue
		}
		if s, is := c.d.Secrets[name]; is && s.Certificate != nil {
			c.Errorf(p.Then(i), "the secret %s is a certificate; write %s and %s", name, name+role.CertificateEnding,
				name+role.KeyEnding)
			continue
		}
		hint := check.Suggest(name, known)
		switch {
		case hint == "" && len(known) > 0:
			hint = "; write " + check.OrWords(known)
		case hint == "":
			hint = "; declare it under secrets"
		}
		c.Errorf(p.Then(i), "the role has no secret %q%s", check.Clip(name), hint)
	}
}

// holdsSecret tells whether values of a type can name secrets.
func holdsSecret(t *setting.Type) bool {
	if t.Type == setting.SecretOf || t.Of != nil && holdsSecret(t.Of) {
		return true
	}
	for _, key := range t.Keys {
		if holdsSecret(&key) {
			return true
		}
	}
	return false
}

// template checks that a file's template is there, parses, and asks for nothing that there is not.
func (c *checker) template(p check.Place, f role.File) {
	if !fileForm.MatchString(f.Template) {
		c.Errorf(p, "%q is not the name of a template; write one of %s/ that ends in %s", check.Clip(f.Template),
			c.d.Folder(), role.Ending)
		return
	}
	text, ok := c.d.Templates[f.Template]
	if !ok {
		hint := check.Suggest(f.Template, slices.Sorted(maps.Keys(c.d.Templates)))
		if hint == "" {
			hint = "; lay it into " + c.d.Folder() + "/"
		}
		c.Errorf(p, "there is no template %q%s", f.Template, hint)
		return
	}
	at := page{path.Join(c.d.Folder(), f.Template)}
	parsed, err := template.Parse(f.Template, text)
	if err != nil {
		var e *template.Error
		if errors.As(err, &e) {
			c.Errorf(check.In(at, e.Line, e.Column), "the template cannot be read: %s", e.Message)
		}
		return
	}
	known := template.Known{File: c.file.Path(), Settings: c.d.Settings, Secrets: f.Secrets,
		Authorities: c.d.Authorities(), Units: len(c.d.Services())}
	for _, name := range c.d.Entries() {
		if _, own := c.d.Secrets[name]; !own {
			known.Certificates = append(known.Certificates, name)
		}
	}
	known.Signal = c.d.Signal()
	if c.Role != nil {
		known.Role = func(name string) bool { return c.Role(name) != "" || name == c.d.Name }
	}
	for _, e := range parsed.Check(known) {
		c.Errorf(check.In(at, e.Line, e.Column), "%s", e.Message)
	}
}

// page is a file without keys: a place in it is a line and a column.
type page struct{ path string }

func (p page) Path() string { return p.path }

func (p page) At(at ...any) (line, column int) {
	if len(at) == 2 {
		line, _ := at[0].(int)
		column, _ := at[1].(int)
		return max(1, line), max(1, column)
	}
	return 1, 1
}

func (p page) Has(...any) bool              { return true }
func (p page) Faulty(line, column int) bool { return false }

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func log2(n int) float64 { return math.Log2(float64(n)) }
