dofile("/usr/share/pdns-recursor/lua-config/rootkeys.lua")
addNTA("broken.example", "their keys are wrong")  -- until May
rpzFile("/etc/powerdns/block.rpz", {policyName="block"})
addSortList("10.0.0.0/8", "10.1.0.0/16")
