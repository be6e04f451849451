package template

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/role/setting"
)

func data() *Data {
	n := Node{Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.plant.example", IPs: []string{"10.77.0.11"}, Memory: 4 << 30,
		Labels: map[string]string{"line": "a"}}
	c := Cluster{Name: "plant", Domain: "plant.example", Nameservers: []string{"10.77.0.2", "10.77.0.3"}, Nodes: 3}
	settings := map[string]any{
		"port": int64(6379), "maxMemory": setting.Size(64 << 20), "timeout": setting.Duration(90 * time.Second), "comment": "", "many": []any{},
		"users": []any{
			map[string]any{"name": "line \"a\"", "password": setting.Secret("line-a-password")},
			map[string]any{"name": "b", "password": setting.Secret("b-password")},
		},
		"limits": map[string]any{"x": int64(1)},
	}
	return NewData(n.At("10.77.0.11"), c, settings, map[string][]Member{"valkey": {{"edge-01", "10.77.0.11"}, {"edge-02", "10.77.0.12"}}, "lost": {{"x", ""}}})
}

func given() Given {
	return Given{
		Data: data(),
		Secret: func(name string) (string, error) {
			if name == "other" {
				return "", errors.New("the file does not name the secret \"other\"")
			}
			return "S3CRET of " + name, nil
		},
		SecretPath: func(name string) (string, error) { return "/run/credentials/x/" + name, nil },
		Authority:  func(name string) (string, error) { return "-----BEGIN " + name, nil },
	}
}

func TestTemplatesRender(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":               {"", ""},
		"only definitions":      {`{{define "a"}}x{{end}}`, ""},
		"a text":                {"port 1\n", "port 1\n"},
		"the node":              {`{{.Node.Name}} {{.Node.FQDN}} {{.Node.Address}} {{.Node.Labels.line}}`, "edge-01 edge-01.plant.example 10.77.0.11 a"},
		"its memory":            {`{{.Node.Memory}} {{.Node.Memory.MiB}} {{div .Node.Memory 4}}`, "4294967296 4096 1073741824"},
		"the cluster":           {`{{.Cluster.Domain}} {{join "," .Cluster.Nameservers}}`, "plant.example 10.77.0.2,10.77.0.3"},
		"a number":              {`port {{.Settings.port}}`, "port 6379"},
		"a size":                {`{{.Settings.maxMemory}} {{.Settings.maxMemory.MiB}}`, "67108864 64"},
		"a duration":            {`{{.Settings.timeout}} {{.Settings.timeout.Seconds}} {{.Settings.timeout.Milliseconds}}`, "1m30s 90 90000"},
		"arithmetic":            {`{{add .Settings.port 1}} {{sub 5 7}} {{mul 2 3}} {{div 7 2}}`, "6380 -2 6 3"},
		"an empty setting":      {`{{if .Settings.comment}}yes{{else}}no{{end}} {{.Settings.comment | default "-"}}`, "no -"},
		"a comparison":          {`{{if gt .Settings.port 1000}}high{{end}}`, "high"},
		"users":                 {`{{range .Settings.users}}{{quote .name}}:{{secret .password}};{{end}}`, `"line \"a\"":S3CRET of line-a-password;"b":S3CRET of b-password;`},
		"no users":              {`{{range .Settings.many}}x{{else}}none{{end}}`, "none"},
		"a secret":              {`{{secret "a"}} {{"b" | secret}}`, "S3CRET of a S3CRET of b"},
		"the file of a secret":  {`{{secretPath "a"}}`, "/run/credentials/x/a"},
		"an authority":          {`{{authority "valkey"}}`, "-----BEGIN valkey"},
		"members":               {`{{range .Members "valkey"}}{{.Name}}={{.Address}} {{end}}`, "edge-01=10.77.0.11 edge-02=10.77.0.12 "},
		"no members":            {`{{range .Members "nobody"}}x{{else}}alone{{end}}`, "alone"},
		"JSON":                  {`{{toJson .Settings.users}}`, `[{"name":"line \"a\"","password":{"secretRef":"line-a-password"}},{"name":"b","password":{"secretRef":"b-password"}}]`},
		"YAML":                  {`{{toYaml .Settings.limits}}`, "x: 1"},
		"YAML with a secret":    {`{{toYaml (index .Settings.users 1)}}`, "name: b\npassword:\n  secretRef: b-password"},
		"texts":                 {`{{upper "a"}}{{lower "B"}}{{trim " c "}}{{replace "x" "y" "axa"}}{{join "+" (split "," "1,2")}}`, "Abcaya1+2"},
		"indented lines":        {`{{indent 2 "a\nb"}}`, "a\n  b"},
		"printf":                {`{{printf "%05d %s %q %.2f%%" 42 "x" "y" 1.5}}`, `00042 x "y" 1.50%`},
		"print":                 {`{{print 1 2}} {{println "x"}}`, "1 2 x\n"},
		"variables":             {`{{$n := 0}}{{range .Settings.users}}{{$n = add $n 1}}{{end}}{{$n}}`, "2"},
		"break and continue":    {`{{range $i, $u := .Settings.users}}{{if $i}}{{break}}{{end}}{{$i}}{{end}}`, "0"},
		"a template of its own": {`{{define "u"}}[{{.name}}]{{end}}{{range .Settings.users}}{{template "u" .}}{{end}}`, `[line "a"][b]`},
		"digests":               {`{{base64 "a\x00ü"}} {{sha256 "abc"}} {{slice (sha256 .Cluster.Name) 0 4}}`, "YQDDvA== ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 9604"},
		// RFC 7914, section 11, the first half.
		"a key of a password": {`{{pbkdf2 "sha256" 1 "salt" "passwd"}}`, "VawEblbjCJ/sFpHCJUS2BflBhSFt3gRl5oudV8INrLw="},
		"a key of a secret":   {`{{secret "x" | pbkdf2 "sha512" 101 "salt" | len}}`, "88"},
		"a hundred deep":      {`{{define "d"}}{{if .}}{{template "d" (slice . 1)}}{{else}}end{{end}}{{end}}{{template "d" "` + strings.Repeat("x", 90) + `"}}`, "end"},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse("x.tmpl", tc.text)
			require.NoError(t, err)
			for range 2 {
				got, err := parsed.Render(t.Context(), given())
				require.NoError(t, err)
				require.Equal(t, tc.want, string(got))
			}
		})
	}
}

func TestATemplateThatCannotBeRenderedSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a setting that there is not":  {"a\n{{.Settings.prot}}", `render x.tmpl: line 2: <.Settings.prot>: map has no entry for key "prot"`},
		"a key that there is not":      {`{{.Node.Nmae}}`, `render x.tmpl: line 1: <.Node.Nmae>: can't evaluate field Nmae in type template.Node`},
		"an entry that there is not":   {`{{index .Settings.limits "y"}}`, "render x.tmpl: it prints a value that is not there, such as an entry of a list or map that nobody wrote; ask with {{if}} first"},
		"a list that is too short":     {`{{index .Settings.users 2}}`, "render x.tmpl: line 1: <index .Settings.users 2>: reflect: slice index out of range"},
		"a secret of another":          {`{{secret "other"}}`, `render x.tmpl: line 1: <secret "other">: the file does not name the secret "other"`},
		"a secret that nobody set":     {`{{secret .Settings.comment}}{{range .Settings.users}}{{secret .name}}{{end}}{{secret 1}}`, `render x.tmpl: line 1: <secret 1>: int is not the name of a secret`},
		"a member without address":     {`{{.Members "lost"}}`, `render x.tmpl: line 1: <.Members>: node x of role lost has no address in cluster.yaml; give it one under ips`},
		"what is not a number":         {`{{add 1 "x"}}`, `render x.tmpl: line 1: <add 1 "x">: string is not a whole number`},
		"a division by 0":              {`{{div 1 0}}`, `render x.tmpl: line 1: <div 1 0>: nothing can be divided by 0`},
		"a join of what is not a list": {`{{join "," "x"}}`, `render x.tmpl: line 1: <join "," "x">: string is not a list`},
		"an indent without end":        {`{{indent 100 "x"}}`, `render x.tmpl: line 1: <indent 100 "x">: 100 blanks before a line are out of bounds; write 0 to 80`},
		"a wide format":                {`{{printf "%1000d" 1}}`, `render x.tmpl: line 1: <printf "%1000d" 1>: the format is not one of at most 1000 bytes with verbs such as %s, %d, %q, %05d or %.2f`},
		"a format of an argument":      {`{{printf "%[1]s" "x"}}`, `render x.tmpl: line 1: <printf "%[1]s" "x">: the format is not one of at most 1000 bytes with verbs such as %s, %d, %q, %05d or %.2f`},
		"an unknown digest":            {`{{pbkdf2 "md5" 1 "s" "p"}}`, `render x.tmpl: line 1: <pbkdf2 "md5" 1 "s" "p">: the digest of pbkdf2 is unknown; write "sha256" or "sha512"`},
		"no iterations":                {`{{pbkdf2 "sha256" 0 "s" "p"}}`, `render x.tmpl: line 1: <pbkdf2 "sha256" 0 "s" "p">: 0 iterations of pbkdf2 are out of bounds; write 1 to 1000000`},
		"iterations without end":       {`{{pbkdf2 "sha256" 1000001 "s" "p"}}`, `render x.tmpl: line 1: <pbkdf2 "sha256" 1000001 "s" "p">: 1000001 iterations of pbkdf2 are out of bounds; write 1 to 1000000`},
		"iterations in words":          {`{{pbkdf2 "sha256" "1" "s" "p"}}`, `render x.tmpl: line 1: <pbkdf2 "sha256" "1" "s" "p">: string is not a whole number`},
		"no salt":                      {`{{pbkdf2 "sha256" 1 "" "p"}}`, `render x.tmpl: line 1: <pbkdf2 "sha256" 1 "" "p">: the salt of pbkdf2 is empty; write one that each user has of its own`},
		"no password":                  {`{{pbkdf2 "sha256" 1 "s" ""}}`, `render x.tmpl: line 1: <pbkdf2 "sha256" 1 "s" "">: the password for pbkdf2 is empty; anybody would know it`},
		"where something is in memory": {`{{printf "%p" .}}`, `render x.tmpl: line 1: <printf "%p" .>: the format is not one of at most 1000 bytes with verbs such as %s, %d, %q, %05d or %.2f`},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse("x.tmpl", tc.text)
			require.NoError(t, err)
			_, err = parsed.Render(t.Context(), given())
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestErrorsHaveNoSecret(t *testing.T) {
	const pin, long = "pin \"4711\"\nx", "0123456789012345678901234567890123456789012345678901234567890123456789"
	for name, text := range map[string]string{
		"a range":                     `{{range secret "pin"}}{{end}}`,
		"a range over a part":         `{{range slice (secret "long") 10}}{{end}}`,
		"a range over another form":   `{{range upper (secret "pin")}}{{end}}`,
		"a number":                    `{{add (secret "pin") 1}}`,
		"the second number":           `{{div 1 (secret "pin")}}`,
		"a format":                    `{{printf (print "%p" (secret "pin"))}}`,
		"a long format":               `{{printf (print (secret "long") "%p")}}`,
		"the name of a secret":        `{{secret (secret "pin")}}`,
		"a long name":                 `{{secret (secret "long")}}`,
		"the name of a file":          `{{secretPath (secret "pin")}}`,
		"the name in another form":    `{{secretPath (upper (secret "pin"))}}`,
		"a part of a name":            `{{secret (slice (secret "long") 3 60)}}`,
		"an authority":                `{{authority (secret "pin")}}`,
		"a role of members":           `{{range .Members (secret "pin")}}{{else}}{{add (secret "pin") 1}}{{end}}`,
		"an index":                    `{{index (secret "pin") "x"}}`,
		"a key":                       `{{index .Settings.users (secret "pin")}}`,
		"a field":                     `{{(secret "pin").x}}`,
		"a comparison":                `{{eq (secret "pin") 1}}`,
		"a join":                      `{{join (secret "pin") (secret "long")}}`,
		"an indent":                   `{{indent (secret "pin") "x"}}`,
		"a template that has it":      `{{define "a"}}{{.x}}{{end}}{{template "a" (secret "pin")}}`,
		"its digest":                  `{{secretPath (base64 (secret "pin"))}}`,
		"a key of it":                 `{{range pbkdf2 "sha256" 1 "s" (secret "long")}}{{end}}`,
		"it as the digest":            `{{pbkdf2 (secret "pin") 1 "s" "p"}}`,
		"a range by way of variables": `{{$x := secret "pin"}}{{range $i, $e := $x}}{{end}}`,
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse("x.tmpl", text)
			require.NoError(t, err)
			in := given()
			in.Secret = func(name string) (string, error) {
				if value, is := map[string]string{"pin": pin, "long": long}[name]; is {
					return value, nil
				}
				return "", fmt.Errorf("the file does not name the secret %.64q", name)
			}
			in.SecretPath = func(name string) (string, error) { return "", fmt.Errorf("no %.64q", name) }
			in.Authority = in.SecretPath
			_, err = parsed.Render(t.Context(), in)
			require.Error(t, err)
			for _, part := range []string{"4711", "PIN ", "34567"} {
				require.NotContains(t, err.Error(), part)
			}
		})
	}
}

func TestATemplateThatGoesOnIsStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"an endless range":                 {`{{range 2000000000}}{{end}}`, ErrSteps},
		"ranges in ranges":                 {strings.Repeat(`{{range 100}}`, 8) + strings.Repeat(`{{end}}`, 8), ErrSteps},
		"a range of long lines":            {`{{range 1000000000}}{{if and 1 1 1 1 1 1 1 1}}{{end}}{{end}}`, ErrSteps},
		"a template that calls itself":     {`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, ErrDepth},
		"one that calls itself twice":      {`{{define "a"}}{{if .}}{{template "a" (slice . 1)}}{{template "a" (slice . 1)}}{{end}}{{end}}{{template "a" "` + strings.Repeat("x", 80) + `"}}`, ErrSteps},
		"two that call each other":         {`{{define "a"}}{{template "b"}}{{end}}{{define "b"}}{{template "a"}}{{end}}{{template "a"}}`, ErrDepth},
		"what prints a GiB":                {`{{range 1073741824}}xxxxxxxx{{end}}`, ErrOutput},
		"what prints a GiB in long lines":  {`{{range 1048576}}` + strings.Repeat("x", 1024) + `{{end}}`, ErrOutput},
		"a text that doubles":              {`{{$x := "xxxxxxxx"}}{{range 64}}{{$x = print $x $x}}{{end}}`, ErrMade},
		"one that doubles by printf":       {`{{$x := "xxxxxxxx"}}{{range 64}}{{$x = printf "%s%s" $x $x}}{{end}}`, ErrMade},
		"one that doubles by replace":      {`{{$x := "xxxxxxxx"}}{{range 64}}{{$x = replace "x" "xx" $x}}{{end}}`, ErrMade},
		"one that doubles by quotes":       {`{{$x := "\"\"\"\""}}{{range 64}}{{$x = quote $x}}{{end}}`, ErrMade},
		"one that grows by indent":         {`{{$x := "\n\n\n\n"}}{{range 1000}}{{$x = indent 80 $x}}{{end}}`, ErrMade},
		"many texts":                       {`{{$x := printf "%0999d" 1}}{{range 100000}}{{$y := upper $x}}{{end}}`, ErrMade},
		"a split into very many":           {`{{$x := printf "%0999d" 1}}{{range 2000}}{{$y := split "0" $x}}{{end}}`, ErrMade},
		"keys of very many passwords":      {`{{range 100}}{{$x := pbkdf2 "sha256" 100000 "s" "p"}}{{end}}`, ErrRounds},
		"digests without end":              {`{{$x := printf "%0999d" 1}}{{range 100000}}{{$x = base64 $x}}{{end}}`, ErrMade},
		"JSON of all settings, very often": {`{{range 1000000}}{{$x := toJson $.Settings}}{{end}}`, ErrMade},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse("x.tmpl", tc.text)
			require.NoError(t, err)
			_, err = parsed.Render(t.Context(), given())
			require.ErrorIs(t, err, tc.want)
			require.EqualError(t, err, "render x.tmpl: "+tc.want.Error())
		})
	}
}

func TestARenderingEndsWithItsContext(t *testing.T) {
	parsed, err := Parse("x.tmpl", "{{range 10}}x{{end}}")
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("5 s are over"))
	_, err = parsed.Render(ctx, given())
	require.EqualError(t, err, "render x.tmpl: it took too long: 5 s are over")
}

func TestATemplateThatDoesNotParse(t *testing.T) {
	offered := strings.Join(Functions(), ", ")
	for name, tc := range map[string]struct {
		text, want   string
		line, column int
	}{
		"an action without end":       {"a\n{{.Node", "unclosed action", 2, 1},
		"a range without end":         {"{{range .Settings.users}}", "unexpected EOF", 1, 1},
		"an end too many":             {"\n\n{{end}}", "unexpected {{end}}", 3, 1},
		"an unknown function":         {`x {{env "HOME"}}`, `there is no function "env"; there are ` + offered, 1, 1},
		"a function of text/template": {"\n  {{call .Members}}", `there is no function "call"; there are ` + offered, 2, 5},
		"another one":                 {`{{"x" | urlquery}}`, `there is no function "urlquery"; there are ` + offered, 1, 9},
		"one that counts":             {`{{_leave}}`, `there is no function "_leave"; there are ` + offered, 1, 1},
		"one in a definition":         {`{{define "a"}}{{html "x"}}{{end}}`, `there is no function "html"; there are ` + offered, 1, 17},
		"an unknown variable":         {`{{$x}}`, `undefined variable "$x"`, 1, 1},
		"a long text":                 {strings.Repeat("x", MaxText+1), "the template has 262145 bytes; at most 262144 are read", 1, 1},
		"parentheses without end":     {"{{" + strings.Repeat("(", 100_000) + "}}", "max expression depth exceeded", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.tmpl", tc.text)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, tc.want)
			require.Equal(t, [2]int{tc.line, tc.column}, [2]int{e.Line, e.Column}, e.Message)
		})
	}
}

func known() Known {
	return Known{
		File: "roles/x.yaml",
		Settings: map[string]setting.Type{
			"port":      {Type: setting.Port},
			"maxMemory": {Type: setting.Bytes},
			"timeout":   {Type: setting.Length},
			"names":     {Type: setting.List, Of: &setting.Type{Type: setting.String}},
			"password":  {Type: setting.SecretOf},
			"users": {Type: setting.List, Of: &setting.Type{Type: setting.Object, Keys: map[string]setting.Type{
				"name": {Type: setting.String}, "password": {Type: setting.SecretOf},
			}}},
			"limits": {Type: setting.Map, Of: &setting.Type{Type: setting.Integer}},
		},
		Secrets:     []string{"valkey-password", "settings.users"},
		Role:        func(name string) bool { return name == "valkey" },
		Authorities: []string{"valkey"},
	}
}

func TestWhatCannotWorkIsKnownBeforehand(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"all of it": {`{{.Settings.port}} {{.Settings.maxMemory.MiB}} {{.Settings.timeout.Seconds}} {{.Settings.limits.x}} {{.Node.Labels.x}} {{.Node.Address}}
{{range $i, $u := .Settings.users}}{{$u.name}} {{.name}} {{secret .password}} {{secret $u.password}} {{$.Settings.port}}{{end}}
{{secret "valkey-password"}} {{"valkey-password" | secretPath}} {{authority "valkey"}} {{range .Members "valkey"}}{{.Address}}{{end}}
{{with .Settings.users}}{{index . 0}}{{end}} {{(index .Settings.users 0).name}} {{range .Settings.names}}{{.}}{{end}} {{$x := .Settings.port}}{{$x}}
{{define "u"}}{{.anything}} {{$.anything}}{{end}}{{template "u" .}}`, nil},
		"an unknown setting":               {"\n  {{.Settings.prot}}", []string{`line 2: .Settings.prot: there is no setting "prot"; did you mean "port"?`}},
		"another one":                      {`{{.Settings.zzz}}`, []string{`line 1: .Settings.zzz: there is no setting "zzz"; there are limits, maxMemory, names, password, port, timeout, users`}},
		"one in a condition":               {`{{if .Settings.a}}{{else if .Settings.b}}{{end}}`, []string{`line 1: .Settings.a: there is no setting "a"; there are limits, maxMemory, names, password, port, timeout, users`, `line 1: .Settings.b: there is no setting "b"; there are limits, maxMemory, names, password, port, timeout, users`}},
		"one by the dollar":                {`{{range .Settings.names}}{{$.Settings.prot}}{{end}}`, []string{`line 1: $.Settings.prot: there is no setting "prot"; did you mean "port"?`}},
		"a key that an object has not":     {`{{range .Settings.users}}{{.nmae}}{{end}}`, []string{`line 1: .nmae: users has no key "nmae"; did you mean "name"?`}},
		"a key of a variable":              {`{{range $u := .Settings.users}}{{$u.nmae}}{{end}}`, []string{`line 1: $u.nmae: users has no key "nmae"; did you mean "name"?`}},
		"a key of a list":                  {`{{.Settings.users.name}}`, []string{`line 1: .Settings.users.name: users is a list here; go through it with range`}},
		"a key of a number":                {`{{.Settings.port.x}}`, []string{`line 1: .Settings.port.x: port is a port here and has no keys; remove .x`}},
		"a wrong unit":                     {`{{.Settings.maxMemory.MB}}`, []string{`line 1: .Settings.maxMemory.MB: there is no "MB"; did you mean "MiB"?`}},
		"the node misspelt":                {`{{.Nodes.Name}}`, []string{`line 1: .Nodes.Name: there is no "Nodes"; did you mean "Node"?`}},
		"a key of the node":                {`{{.Node.Nmae}}`, []string{`line 1: .Node.Nmae: there is no "Nmae"; did you mean "Name"?`}},
		"a key of a name":                  {`{{.Node.Name.x}}`, []string{`line 1: .Node.Name.x: there is nothing behind the point; remove .x`}},
		"a key of a member":                {`{{range .Members "valkey"}}{{.IP}}{{end}}`, []string{`line 1: .IP: there is no "IP"; there are Address, Name`}},
		"settings in small letters":        {`{{.settings.port}}`, []string{`line 1: .settings.port: there is no "settings"; did you mean "Settings"?`}},
		"a secret that is not named":       {`{{secret "license"}}`, []string{`line 1: the file does not name the secret "license"; add it to its secrets in roles/x.yaml`}},
		"the same by a pipe":               {`{{"license" | secret}}`, []string{`line 1: the file does not name the secret "license"; add it to its secrets in roles/x.yaml`}},
		"the same inside of another":       {`{{quote (secret "license")}}`, []string{`line 1: the file does not name the secret "license"; add it to its secrets in roles/x.yaml`}},
		"its file":                         {`{{secretPath "license"}}`, []string{`line 1: the file does not name the secret "license"; add it to its secrets in roles/x.yaml`}},
		"a setting's secret, not named":    {`{{secret .Settings.password}}`, []string{`line 1: the file does not name the secrets of the setting password; add settings.password to its secrets in roles/x.yaml`}},
		"what is not a secret":             {`{{range .Settings.users}}{{secret .name}}{{end}}`, []string{`line 1: .name is a string and not a secret; declare it with type: secret`}},
		"a role that there is not":         {`{{.Members "redis"}}`, []string{`line 1: there is no role "redis"; write one that nodes can have`}},
		"an authority that there is not":   {`{{authority "root"}}`, []string{`line 1: the role has no authority "root"; there are valkey`}},
		"a secret in a template of a file": {`{{define "a"}}{{secret "license"}}{{end}}`, []string{`line 1: the file does not name the secret "license"; add it to its secrets in roles/x.yaml`}},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse("x.tmpl", tc.text)
			require.NoError(t, err)
			var got []string
			for _, e := range parsed.Check(known()) {
				require.Positive(t, e.Column)
				got = append(got, e.Error())
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestUnitsSeeSecretsAtPlacesOfTheirOwn(t *testing.T) {
	several := known()
	several.Units, several.Certificates = 2, []string{"tls-key"}
	several.Secrets = append(several.Secrets, "tls-key")
	parsed, err := Parse("x.tmpl", `{{secretPath "tls-key"}} {{secret "valkey-password"}} {{secretPath "valkey-password"}}`)
	require.NoError(t, err)
	found := parsed.Check(several)
	require.Len(t, found, 1)
	require.Equal(t, `the role has 2 units, and each sees the secret in another file; write the secret itself: {{secret "valkey-password"}}`, found[0].Message)
	several.Units = 1
	require.Empty(t, parsed.Check(several))
}

func TestWhatASignalTellsToReadAgainIsNamedByItsPath(t *testing.T) {
	signalled := known()
	signalled.Certificates = []string{"tls-certificate", "tls-key"}
	signalled.Secrets = append(signalled.Secrets, signalled.Certificates...)
	parsed, err := Parse("x.tmpl", `{{secretPath "tls-key"}} {{secret "valkey-password"}} {{secret "tls-certificate"}}`)
	require.NoError(t, err)
	require.Empty(t, parsed.Check(signalled))
	signalled.Signal = "HUP"
	found := parsed.Check(signalled)
	require.Len(t, found, 1)
	require.Equal(t, `at the signal HUP the units read a new certificate, and this file is made at their start alone; write the path: {{secretPath "tls-certificate"}}`, found[0].Message)
}

// FuzzRender holds that no template panics, ends beyond its bounds or takes long, whatever it says.
func FuzzRender(f *testing.F) {
	for _, text := range []string{
		"", `{{range .Settings.users}}{{secret .password}}{{end}}`, `{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, `{{range 100}}{{range 100}}x{{end}}{{end}}`,
		`{{$x := "x"}}{{range 64}}{{$x = print $x $x}}{{end}}{{$x}}`, `{{printf "%v %T" . .}}`, `{{with $y := .Members "valkey"}}{{len $y}}{{end}}`, `{{block "b" .}}{{.Node}}{{end}}`,
		`{{toYaml .}}{{toJson .}}`, `{{pbkdf2 "sha512" 101 (slice (sha256 .Node.Name) 0 12) (secret "x") | base64}}`, `{{if (index .Settings.users 0).name | quote}}{{break}}{{end}}`, `{{- /* c */ -}}`, `{{.Settings.timeout.Seconds | printf "%.1f"}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse("x.tmpl", text)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Positive(t, e.Line)
			require.Positive(t, e.Column)
			return
		}
		for _, e := range parsed.Check(known()) {
			require.NotEmpty(t, e.Message)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		got, err := parsed.Render(ctx, given())
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		if err == nil {
			require.LessOrEqual(t, len(got), MaxOutput)
			again, err := parsed.Render(ctx, given())
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
	})
}
