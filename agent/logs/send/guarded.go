package send

import (
	"net"
	"time"
)

// refusedPause is how long nobody is taken after somebody was refused: a program cannot keep this one busy.
const refusedPause = 20 * time.Millisecond

// guarded is a listener that takes only who may connect.
type guarded struct {
	net.Listener
	may    func(net.Conn) error
	refuse func(error)
}

// Accept returns the next connection of somebody who may.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		err = g.may(c)
		if err == nil {
			return c, nil
		}
		c.Close()
		g.refuse(err)
		time.Sleep(refusedPause)
	}
}
