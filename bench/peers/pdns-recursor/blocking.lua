rpzFile("%LIST%", { policyName = "bench" })
