// CoreDNS with the plugins that the bench configures, and no others.
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/tls"

	"github.com/coredns/coredns/coremain"
)

func main() {
	coremain.Run()
}
