export const who = "static";
