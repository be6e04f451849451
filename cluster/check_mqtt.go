package cluster

import (
	"regexp"
	"strings"

	"spore/services/mqtt"
)

// mqttUser is what mosquitto's password and ACL files can hold without escapes: no colon, no blank (mosquitto.conf(5)).
var mqttUser = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// maxPayload is the largest MQTT packet (MQTT 5.0, section 1.5.5).
const maxPayload = 268_435_455

func (k *checker) checkMQTT(src *source, s *mqtt.Settings) {
	if s.Port != 0 {
		k.between(in(src, "port"), "the port", s.Port, 1, 65535)
	}
	k.secretRef(in(src, "tls", "certificate"), "certificate", s.TLS.Certificate)
	k.secretRef(in(src, "tls", "key"), "key", s.TLS.Key)
	if ref := s.TLS.Key.SecretRef; ref != "" && ref == s.TLS.Certificate.SecretRef {
		k.errorf(in(src, "tls", "key"), "the key and the certificate are the same bundle entry %q; they are two", clip(ref))
	}
	if s.MaxConnections < -1 {
		k.errorf(in(src, "maxConnections"), "maxConnections %d is out of bounds; write -1 for no limit, or the number of clients", s.MaxConnections)
	}
	k.between(in(src, "messageSizeLimit"), "messageSizeLimit", s.MessageSizeLimit, 0, maxPayload)
	if src.has("users") && len(s.Users) == 0 {
		k.errorf(in(src, "users"), "there are no users, so nobody could connect; add one with name, password and acl")
	}
	names, refs := k.unique(), map[string]int{}
	for i, u := range s.Users {
		p := in(src, "users", i)
		if src.has("users", i, "name") {
			if !mqttUser.MatchString(u.Name) {
				k.errorf(p.then("name"), "the user name %q is not valid; write 1 to 64 letters, digits, -, _, . and @, the first a letter or digit", clip(u.Name))
			} else {
				names.add(p.then("name"), "the user", u.Name, "each user has one entry")
			}
		}
		k.secretRef(p.then("password"), "password", u.Password)
		if ref := u.Password.SecretRef; ref != "" {
			if first, twice := refs[ref]; twice {
				k.warningf(p.then("password"), "the users %s and %s share the bundle entry %q; whoever knows one password knows both", clip(s.Users[first].Name), clip(u.Name), clip(ref))
			} else {
				refs[ref] = i
			}
			if ref == s.TLS.Key.SecretRef || ref == s.TLS.Certificate.SecretRef {
				k.errorf(p.then("password"), "the password of %s is the same bundle entry as the listener's key or certificate; give it one of its own", clip(u.Name))
			}
		}
		if len(u.ACL) == 0 {
			k.warningf(p, "the user %s may connect but neither read nor write; add acl: [{topic: …, access: read}]", clip(u.Name))
		}
		k.checkACL(p, u)
	}
}

func (k *checker) checkACL(p place, u mqtt.User) {
	topics := k.unique()
	for j, a := range u.ACL {
		q := p.then("acl", j)
		if p.src.has(append(q.path, "access")...) {
			k.oneOf(q.then("access"), "the access", a.Access, []string{"read", "write", "readwrite", "deny"})
		}
		if !p.src.has(append(q.path, "topic")...) {
			continue
		}
		if why := badTopicFilter(a.Topic); why != "" {
			k.errorf(q.then("topic"), "the topic filter %q %s", clip(a.Topic), why)
			continue
		}
		topics.add(q.then("topic"), "the topic filter", a.Topic, "mosquitto would use one of them; keep one")
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
