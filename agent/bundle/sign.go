package bundle

import (
	"crypto/rand"
	"fmt"
	"io"

	"spore/agent/node"
	"spore/agent/renewal"
	"spore/pki"
	"spore/services"
	"spore/services/service"
)

// signerProgram is the program that signs other nodes' certificates, on masters.
const signerProgram = "signer"

// Sign signs for another node: the request comes in, the answer goes out. systemd starts it for each
// connection to its socket.
func Sign(m *node.Machine, in io.Reader, out io.Writer) error {
	request, err := io.ReadAll(io.LimitReader(in, renewal.MaxRequest+1))
	if err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	answer, err := signRequest(m, request)
	if err != nil {
		m.Say("a request for certificates was refused: " + err.Error())
		answer = renewal.Refuse(err)
	}
	_, err = out.Write(answer)
	return err
}

func signRequest(m *node.Machine, request []byte) ([]byte, error) {
	c, _, err := m.Self()
	if err != nil {
		return nil, err
	}
	rows, keys := pki.Authorities(services.Of(c)), map[string]string{}
	for _, a := range rows {
		keys[a.Name] = a.Key
	}
	trusted := map[string]string{}
	for _, a := range rows {
		if text, err := m.Part.Public(a.Name + ".crt"); err == nil && a.Kind == service.CA {
			trusted[a.Name] = string(text)
		}
	}
	s := renewal.Signer{Cluster: c, Node: m.Part.Node, Trusted: trusted, Now: m.Now(), Random: rand.Reader, Key: func(authority string) (pki.Hidden, error) {
		key, err := node.Secret(keys[authority])
		return pki.Hidden(key), err
	}}
	return s.Sign(request)
}
