package cluster

import (
	"errors"
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/role"
	"spore/cluster/role/template"
	"spore/cluster/yamlfile"
	"spore/services"
)

// Bounds of roles/.
const (
	maxRoles     = 100
	maxTemplates = 100 // of one role
)

// loadRoles reads roles/NAME.yaml and the templates of roles/NAME/.
func (l *loader) loadRoles(c *Config) {
	names, folders := l.roleNames()
	for _, name := range names {
		d := &role.Definition{Name: name}
		s := l.file(path.Join(role.Dir, name+".yaml"), d)
		if slices.Contains(folders, name) {
			d.Templates = l.templates(d.Folder())
		}
		c.Roles = append(c.Roles, d)
		c.roleFiles = append(c.roleFiles, s)
	}
	c.list, c.clashes = listOf(c.Roles)
}

// listOf is the list of services with the rows of roles, and what some of them would take of others.
func listOf(roles []*role.Definition) (*services.List, services.Clashes) {
	own := make([]services.Definition, len(roles))
	for i, d := range roles {
		own[i] = d
	}
	l, err := services.With(own)
	var clashes services.Clashes
	errors.As(err, &clashes)
	return l, clashes
}

// roleNames are the roles that there are, and the folders of templates.
func (l *loader) roleNames() (names, folders []string) {
	for _, e := range l.dir(role.Dir) {
		file := path.Join(role.Dir, e.Name())
		switch name, isRole := strings.CutSuffix(e.Name(), ".yaml"); {
		case e.IsDir():
			folders = append(folders, e.Name())
		case isRole:
			names = append(names, name)
		case path.Ext(file) == ".yml":
			right := strings.TrimSuffix(e.Name(), ".yml") + ".yaml"
			l.add(check.Error, file, 1, 1, "files end in .yaml; rename it to %s", right)
		default:
			l.add(check.Error, file, 1, 1, "nothing reads this file; %s/ holds NAME.yaml, and templates in %s/NAME/",
				role.Dir, role.Dir)
		}
	}
	if len(names) > maxRoles {
		l.add(check.Error, role.Dir, 1, 1, "holds %d roles; at most %d are read", len(names), maxRoles)
		names = names[:maxRoles]
	}
	for _, folder := range folders {
		if !slices.Contains(names, folder) {
			l.add(check.Error, path.Join(role.Dir, folder), 1, 1,
				"there is no role of these templates; write %s/%s.yaml%s", role.Dir, folder,
				check.Suggest(folder, names))
		}
	}
	return names, folders
}

// templates reads the templates of one role, by their names.
func (l *loader) templates(dir string) map[string]string {
	out := map[string]string{}
	entries := l.dir(dir)
	if len(entries) > maxTemplates {
		l.add(check.Error, dir, 1, 1, "holds %d templates; at most %d are read", len(entries), maxTemplates)
		return out
	}
	for _, e := range entries {
		file := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			l.add(check.Error, file, 1, 1, "is a directory; %s/ holds templates only", dir)
		case path.Ext(file) != role.Ending:
			l.add(check.Error, file, 1, 1, "nothing reads this file; templates end in %s", role.Ending)
		default:
			out[e.Name()] = l.template(file)
		}
	}
	return out
}

// templateAdvice says what to do with a secret in a template.
const templateAdvice = `put it into the bundle and write {{secret "NAME"}}`

// template reads one template, which everybody with the image can read. It is empty after a fault.
func (l *loader) template(file string) string {
	data, err := l.read(file)
	if err != nil {
		l.add(check.Error, file, 1, 1, "cannot be read: %v", plain(err))
		return ""
	}
	if len(data) > template.MaxText {
		l.add(check.Error, file, 1, 1, "the template has %d bytes; at most %d are read", len(data), template.MaxText)
		return ""
	}
	if f := yamlfile.CheckText(data); f != nil {
		l.add(check.Error, file, f.Line, f.Column, "%s", strings.Replace(f.Message, "in YAML", "in a template", 1))
		return ""
	}
	for _, f := range literalSecrets(data, templateAdvice, func(string) bool { return false }) {
		l.add(check.Error, file, f.Line, f.Column, "%s", f.Message)
	}
	return string(data)
}

// RoleUnits are the units that roles of the configuration's own start, sorted. Nothing else enables them.
func (c *Config) RoleUnits() []string {
	var out []string
	for _, d := range c.Roles {
		out = append(append(out, d.Units...), d.Triggered()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// roleSource adds the files of the roles whose service is listed.
func (c *Config) roleSource(out map[string][]byte) {
	for i, d := range c.Roles {
		if !slices.Contains(c.Cluster.Services, d.Name) {
			continue
		}
		out[c.roleFiles[i].path] = c.roleFiles[i].data
		for name, text := range d.Templates {
			out[path.Join(d.Folder(), name)] = []byte(text)
		}
	}
}
