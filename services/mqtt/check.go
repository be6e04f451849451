package mqtt

import (
	"strings"

	"spore/cluster/check"
	"spore/cluster/form"
)

// userName is what mosquitto's password and ACL files can hold without escapes: no colon, no blank (mosquitto.conf(5)).
var userName = form.New(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// maxPayload is the largest MQTT packet (MQTT 5.0, section 1.5.5).
const maxPayload = 268_435_455

// checkSettings checks mqtt.yaml.
func checkSettings(k *check.Checker, file check.File) {
	s := Of(k.Services)
	if s.Port != 0 {
		k.Between(check.In(file, "port"), "the port", s.Port, 1, 65535)
	}
	k.SecretRef(check.In(file, "tls", "certificate"), "certificate", s.TLS.Certificate)
	k.SecretRef(check.In(file, "tls", "key"), "key", s.TLS.Key)
	if ref := s.TLS.Key.SecretRef; ref != "" && ref == s.TLS.Certificate.SecretRef {
		k.Errorf(check.In(file, "tls", "key"), "the key and the certificate are the same bundle entry %q; they are two", check.Clip(ref))
	}
	if s.MaxConnections < -1 {
		k.Errorf(check.In(file, "maxConnections"), "maxConnections %d is out of bounds; write -1 for no limit, or the number of clients", s.MaxConnections)
	}
	k.Between(check.In(file, "messageSizeLimit"), "messageSizeLimit", s.MessageSizeLimit, 0, maxPayload)
	if file.Has("users") && len(s.Users) == 0 {
		k.Errorf(check.In(file, "users"), "there are no users, so nobody could connect; add one with name, password and acl")
	}
	names, refs := k.Unique(), map[string]int{}
	for i, u := range s.Users {
		p := check.In(file, "users", i)
		if file.Has("users", i, "name") {
			if !userName.MatchString(u.Name) {
				k.Errorf(p.Then("name"), "the user name %q is not valid; write 1 to 64 letters, digits, -, _, . and @, the first a letter or digit", check.Clip(u.Name))
			} else {
				names.Add(p.Then("name"), "the user", u.Name, "each user has one entry")
			}
		}
		k.SecretRef(p.Then("password"), "password", u.Password)
		if ref := u.Password.SecretRef; ref != "" {
			if first, twice := refs[ref]; twice {
				k.Warningf(p.Then("password"), "the users %s and %s share the bundle entry %q; each of them knows the password of the other", check.Clip(s.Users[first].Name), check.Clip(u.Name), check.Clip(ref))
			} else {
				refs[ref] = i
			}
			if ref == s.TLS.Key.SecretRef || ref == s.TLS.Certificate.SecretRef {
				k.Errorf(p.Then("password"), "the password of %s is the same bundle entry as the listener's key or certificate; give it one of its own", check.Clip(u.Name))
			}
		}
		if len(u.ACL) == 0 {
			k.Warningf(p, "the user %s may connect but neither read nor write; add acl: [{topic: …, access: read}]", check.Clip(u.Name))
		}
		checkACL(k, p, u)
	}
}

func checkACL(k *check.Checker, p check.Place, u User) {
	topics := k.Unique()
	for j, a := range u.ACL {
		q := p.Then("acl", j)
		if p.File.Has(append(q.Path, "access")...) {
			k.OneOf(q.Then("access"), "the access", a.Access, accesses)
		}
		if !p.File.Has(append(q.Path, "topic")...) {
			continue
		}
		if why := badTopicFilter(a.Topic); why != "" {
			k.Errorf(q.Then("topic"), "the topic filter %q %s", check.Clip(a.Topic), why)
			continue
		}
		topics.Add(q.Then("topic"), "the topic filter", a.Topic, "mosquitto would use one of them; keep one")
	}
}

// badTopicFilter says what is wrong with a topic filter (MQTT 5.0, section 4.7), or nothing.
func badTopicFilter(t string) string {
	switch {
	case t == "":
		return "is empty; write one such as sensors/#"
	case len(t) > 65535 || strings.ContainsAny(t, "\x00\n\r"):
		return "has characters or a length that MQTT does not allow"
	case strings.TrimSpace(t) != t:
		return "has blanks around it; remove them"
	}
	levels := strings.Split(t, "/")
	for i, l := range levels {
		if strings.Contains(l, "#") && (l != "#" || i != len(levels)-1) {
			return "has # where it does not belong; # stands alone as the last level, as in sensors/#"
		}
		if strings.Contains(l, "+") && l != "+" {
			return "has + inside a level; + stands for a whole level, as in sensors/+/temperature"
		}
	}
	return ""
}
